-- Which tasks fail more often in the last hour than in the last week?
SELECT now.name AS task, now.failed, now.succeeded,
       round(100.0 * now.failed / (now.failed + now.succeeded), 1) AS percent,
       round(100.0 * week.failed / (week.failed + week.succeeded), 1) AS percent_of_week
FROM inturn.measure_history(inturn.clock() - interval '1 hour', p_by => 'task') AS now
LEFT JOIN inturn.measure_history(inturn.clock() - interval '7 days', p_by => 'task') AS week
    ON week.name = now.name AND week.failed + week.succeeded > 0
WHERE now.failed > 0
    AND now.failed * coalesce(week.failed + week.succeeded, 1)
        > coalesce(week.failed, 0) * (now.failed + now.succeeded)
ORDER BY now.failed DESC
LIMIT 50;
