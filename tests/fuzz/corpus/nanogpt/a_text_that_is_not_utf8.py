# a miniature model o# a miniature model of characters
out_dir = 'ut-shþÿÿúpeare-char'
eval_interval = 250  # ovte